"""What every room stands on: errors, files that appear whole, locks, options, progress, a pool of workers."""
