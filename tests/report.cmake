rb_unit(report core base ledger report)
