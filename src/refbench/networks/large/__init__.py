"""Encoders and quality networks of the papers, on torch and transformers (the extra `neural`), without torchvision.

Every network is a class made from the paths of its weights, a device and a dtype; heavy libraries are imported when
it is made.
"""
