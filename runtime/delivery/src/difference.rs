//! What a new version asks for that the old one did not.
