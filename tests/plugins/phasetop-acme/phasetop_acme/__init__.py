"""What phasetop needs to know of Acme servers and Acme GPUs."""
