"""What would have happened: pure arithmetic over recorded states, with no network, disk or clock."""
