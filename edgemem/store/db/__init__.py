"""SQLite: the one floor that opens a database, locks it, writes to it, migrates it and reads its log.

Nothing here knows what a fact or a turn is. Every pragma has its reason beside it. `connection` alone imports sqlite3.
"""
