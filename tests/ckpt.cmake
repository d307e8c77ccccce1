rb_unit(ckpt core base ckpt)
