"""RefBlend: new multi-reference samples from pictures: rules, plan, instructions; MultiRef's data engine rebuilt."""
