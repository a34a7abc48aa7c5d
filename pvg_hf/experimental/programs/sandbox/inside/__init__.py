"""
Code that runs within a sandbox, with the standard library only. Its source is sent to the worker, which reads no file
of it.
"""
