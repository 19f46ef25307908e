"""Image to text: pictures or handwriting, and a model that writes their texts."""
