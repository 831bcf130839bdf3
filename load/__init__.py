"""The load harness: what this machine does, measured beside what raw Redis does in the same run."""
