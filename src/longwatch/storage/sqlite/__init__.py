"""SQLite files: connections, migrations, forks, errors and the signals of a write."""
