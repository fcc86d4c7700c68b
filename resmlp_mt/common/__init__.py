"""What most packages use: errors, files that appear whole, locks, options, progress, worker processes."""
