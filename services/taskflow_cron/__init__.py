"""Cron: will turn schedules into jobs.  Today it only keeps watch over the broker; see the README."""
