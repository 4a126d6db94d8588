package kernel

import "weir/engine/gguf"

// HasProduct reports whether weights of a type have matrix products of their own
// at a level, as all supported ones do. Others would be decoded row by row and
// multiplied as floats, which is some hundred times slower.
func HasProduct(level Level, t gguf.Type) bool {
	if level == AutoLevel {
		level = BestLevel()
	}
	if level == Portable {
		return formats[t] != nil
	}
	return productsFor(level, t) != nil
}
