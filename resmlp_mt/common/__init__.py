"""What every room stands on: errors, files that appear whole, locks, tables, this machine."""
