"""What runs in AWS Lambda, and what brings it there. Thin: event in, one call, plain data out."""
