"""The command `pvg`. A command checks its arguments before it imports torch and other large libraries."""
