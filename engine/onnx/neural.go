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
		"LSTM": recurrent, "GRU": recurrent, "RNN": recurrent, "Einsum": einsum,
		"Pad": pad, "GatherND": gatherND, "ScatterND": scatterND, "ScatterElements": scatterElements, "Scatter": scatterElements,
		"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear, "DynamicQuantizeLinear": dynamicQuantizeLinear,
		"MatMulInteger": matMulInteger, "ConvInteger": integerConv, "QLinearMatMul": qLinearMatMul, "QLinearConv": integerConv,
		"Trilu": trilu, "NonZero": nonZero, "EyeLike": eyeLike, "DepthToSpace": depthSpace, "SpaceToDepth": depthSpace, "ReverseSequence": reverseSequence,
		"Attention": attention,
		"Resize":    resize, "Upsample": resize, "RotaryEmbedding": rotary,
	}
}

// contributed are those of ONNX Runtime's domain, com.microsoft.
func contributed() map[string]constructor {
	return map[string]constructor{
		"Gelu": geluOf, "BiasGelu": biasGelu, "FastGelu": biasGelu, "QuickGelu": activate,
		"FusedConv":              conv,
		"SkipLayerNormalization": normalization, "SkipSimplifiedLayerNormalization": normalization,
		"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear, "MatMulIntegerToFloat": matMulToFloat, "DynamicQuantizeMatMul": matMulToFloat,
		"DynamicQuantizeLSTM": quantizedLSTM,
		"QGemm":               qGemm, "QLinearAdd": qLinearPair, "QLinearMul": qLinearPair, "QLinearSigmoid": qLinearMap, "QLinearLeakyRelu": qLinearMap,
		"Attention": packedAttention, "MultiHeadAttention": multiHead, "FusedMatMul": fusedMatMul, "FusedGemm": fusedGemm,
		"QLinearConcat": qLinearConcat, "QLinearAveragePool": qLinearPool, "QLinearGlobalAveragePool": qLinearPool, "QLinearSoftmax": qLinearSoftmax,
	}
}
