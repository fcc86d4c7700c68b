"""A web page and an HTTP interface for a translator."""
