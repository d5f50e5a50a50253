"""Which kernels exist, and how they are written out. Never imports the ckdisp runtime."""
