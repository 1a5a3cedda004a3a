"""Executors and workers: tasks computed in threads or in processes of their own."""
