package defaultmodel

import _ "embed"

//go:embed iris.json
var irisFile string

//go:embed iris.golden.json
var irisGolden string

// IrisName is the name under which weir serves [Iris].
const IrisName = "weir-iris"

// IrisClasses are the species that the columns of [Iris]'s output stand for.
func IrisClasses() []string { return []string{"setosa", "versicolor", "virginica"} }

// Iris returns the tree model that weir serves beside the language model when it is given no
// file, and golden rows with the outputs of the library that trained it. It tells three
// species of iris by the sizes of sepals and petals; train/iris.py is its recipe.
func Iris() (model, golden string) { return irisFile, irisGolden }
