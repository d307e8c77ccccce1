rb_unit(ledger core base ledger)
rb_unit(ledger_verify core base ledger)
rb_unit(ledger_shard core base ledger)
