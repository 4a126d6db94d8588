package onnx

import (
	"maps"

	"weir/internal/tensor"
)

// constructor checks a node's attributes and input types and makes its kernel.
type constructor func(n *node) (kernel, error)

// operators are the supported ones by domain and name.
var operators map[string]map[string]constructor

func init() {
	operators = map[string]map[string]constructor{
		"": {
			"Abs": unary, "Neg": unary, "Sqrt": unary, "Exp": unary, "Log": unary, "Floor": unary, "Ceil": unary,
			"Round": unary, "Sign": unary, "Reciprocal": unary, "Sigmoid": unary, "Tanh": unary, "Relu": unary,
			"Softplus": unary, "Erf": unary, "Sin": unary, "Cos": unary,
			"Clip": clip, "Not": not, "IsNaN": isNaN, "IsInf": isInf,
			"Add": arithmetic, "Sub": arithmetic, "Mul": arithmetic, "Div": arithmetic, "Pow": power, "Mod": modulo,
			"Min": variadic, "Max": variadic, "Sum": variadic, "Mean": variadic,
			"Equal": comparison, "Less": comparison, "Greater": comparison, "LessOrEqual": comparison,
			"GreaterOrEqual": comparison, "And": logic, "Or": logic, "Xor": logic, "Where": where,

			"MatMul": matMul, "Gemm": gemm, "Softmax": softmax, "LogSoftmax": softmax, "BatchNormalization": batchNorm,

			"ReduceSum": reduction, "ReduceMean": reduction, "ReduceMax": reduction, "ReduceMin": reduction,
			"ReduceL1": reduction, "ReduceL2": reduction, "ReduceSumSquare": reduction, "ReduceProd": reduction,
			"ReduceLogSum": reduction, "ReduceLogSumExp": reduction,
			"ArgMax": argExtreme, "ArgMin": argExtreme, "TopK": topK, "CumSum": cumSum,

			"Identity": renamed, "Dropout": identity, "Constant": constant, "ConstantOfShape": constantOfShape, "Cast": cast,
			"CastLike": castLike, "Shape": shapeOf, "Size": sizeOf, "Reshape": reshape, "Flatten": flatten,
			"Squeeze": squeeze, "Unsqueeze": unsqueeze, "Transpose": transpose, "Concat": concat, "Split": split,
			"Slice": slice, "Gather": gather, "GatherElements": gatherElements, "Expand": expand, "Tile": tile,
			"OneHot": oneHot, "Range": rangeOf,
		},
		domainMicrosoft: contributed(),
		domainML: {
			"LinearRegressor": linearRegressor, "LinearClassifier": linearClassifier,
			"SVMRegressor": svmRegressor, "SVMClassifier": svmClassifier,
			"TreeEnsembleRegressor": treeRegressor, "TreeEnsembleClassifier": treeClassifier, "TreeEnsemble": treeEnsemble,
			"Scaler": scaler, "Normalizer": normalizer, "Imputer": imputer, "Binarizer": binarizer,
			"LabelEncoder": labelEncoder, "OneHotEncoder": oneHotEncoder, "CategoryMapper": categoryMapper,
			"FeatureVectorizer": featureVectorizer, "ArrayFeatureExtractor": arrayFeatureExtractor, "ZipMap": zipMap,
		},
	}
	maps.Copy(operators[""], neural())
	maps.Copy(operators[""], control())
	maps.Copy(operators[""], texts())
	operators[""]["Compress"] = compress
	maps.Copy(operators[domainMicrosoft], map[string]constructor{"Tokenizer": tokenizer, "MurmurHash3": murmurHash, "CDist": cdist})
}

// Sets of types that operators take.
var (
	floating = []tensor.Type{tensor.Float32, tensor.Float64}
	numeric  = []tensor.Type{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64}
	numbers  = []tensor.Type{
		tensor.Float32, tensor.Float64, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
		tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64,
	}
	anything = append([]tensor.Type{tensor.Bool, tensor.Bytes}, numbers...)
)
