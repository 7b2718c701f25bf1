"""What tests share: models, homes, loops, disks, servers and oracles; a module a noun."""
