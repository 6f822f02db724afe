"""What commands share: options, output, and the commands that they print to run next."""
