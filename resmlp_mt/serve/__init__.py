"""A page and an interface over HTTP to a translator."""
