"""Cron: starts the runs of schedules when their time has come."""
