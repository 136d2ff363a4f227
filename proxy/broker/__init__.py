"""From the broker's settings to what serves it: its state, its upstreams and credentials, its feedback's place."""
