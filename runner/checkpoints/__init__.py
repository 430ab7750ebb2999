"""What a model says about itself: drafter to verifier, method and draft length; its revision."""
