"""Parts of the site of the documentation that MkDocs loads (`make docs`)."""
