"""What a training run is measured by beside its own validation examples."""
