package onnx

// neural are the operators of neural networks in ONNX's own domain.
func neural() map[string]constructor {
	return map[string]constructor{
		"LeakyRelu": activate, "Elu": activate, "Selu": activate, "HardSigmoid": activate, "Celu": activate,
		"ThresholdedRelu": activate, "Shrink": activate, "Swish": activate, "Gelu": geluOf, "PRelu": pRelu,
		"Softsign": unary, "Mish": unary, "HardSwish": unary, "Tan": unary, "Asin": unary, "Acos": unary, "Atan": unary,
		"Sinh": unary, "Cosh": unary, "Asinh": unary, "Acosh": unary, "Atanh": unary, "Hardmax": hardmax,
		"BitwiseAnd": bitwise, "BitwiseOr": bitwise, "BitwiseXor": bitwise, "BitwiseNot": bitwise, "BitShift": bitwise,
		"Conv":               conv,
		"MaxPool":            pool,
		"AveragePool":        pool,
		"LpPool":             pool,
		"GlobalMaxPool":      pool,
		"GlobalAveragePool":  pool,
		"GlobalLpPool":       pool,
		"ConvTranspose":      convTranspose,
		"LayerNormalization": normalization, "RMSNormalization": normalization, "SimplifiedLayerNormalization": normalization,
		"GroupNormalization": groupNorm, "InstanceNormalization": groupNorm, "LpNormalization": lpNorm, "MeanVarianceNormalization": meanVariance, "LRN": localResponse,
	}
}

// contributed are those of ONNX Runtime's domain, com.microsoft.
func contributed() map[string]constructor {
	return map[string]constructor{
		"Gelu": geluOf, "BiasGelu": biasGelu, "FastGelu": biasGelu, "QuickGelu": activate,
		"FusedConv":              conv,
		"SkipLayerNormalization": normalization, "SkipSimplifiedLayerNormalization": normalization,
	}
}
