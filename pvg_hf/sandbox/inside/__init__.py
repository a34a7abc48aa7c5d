"""What runs within a sandbox: the standard library only. Its source is sent to the worker, so no file of it is read there."""
