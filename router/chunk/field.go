package chunk

import "iter"

// Fields gives the fields of an object by their names, and copies none. What is no object has none; data must be JSON.
func Fields(data []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		s := skimmer{b: data}
		if s.space() != '{' {
			return
		}
		for f := s.open('{'); s.field(&f); {
			if v := s.value(); s.bad || !yield(string(f.name), v.Of(data)) {
				return
			}
		}
	}
}

// Elements gives the elements of an array in the same way.
func Elements(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := skimmer{b: data}
		if s.space() != '[' {
			return
		}
		for e := s.open('['); s.element(&e); {
			if v := s.value(); s.bad || !yield(v.Of(data)) {
				return
			}
		}
	}
}
