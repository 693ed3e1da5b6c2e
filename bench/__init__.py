"""Speed as ratios measured side by side in one run; never a test with a clock."""
