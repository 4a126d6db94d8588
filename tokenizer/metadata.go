package tokenizer

import "fmt"

// metadata reads typed values by GGUF key. A key that is absent is not an
// error; one of the wrong type is.
type metadata struct {
	value func(key string) (any, bool)
}

func typeError(key string, v any, want string) error {
	return fmt.Errorf("read metadata %s: value has type %T, want %s", key, v, want)
}

func (m metadata) text(key string) (string, error) {
	v, ok := m.value(key)
	if !ok {
		return "", nil
	}
	s, ok := v.(string)
	if !ok {
		return "", typeError(key, v, "string")
	}
	return s, nil
}

// flag gives fallback where the key is absent; set reports whether it is there.
func (m metadata) flag(key string, fallback bool) (b, set bool, err error) {
	v, ok := m.value(key)
	if !ok {
		return fallback, false, nil
	}
	b, ok = v.(bool)
	if !ok {
		return fallback, false, typeError(key, v, "bool")
	}
	return b, true, nil
}

func (m metadata) integer(key string) (n int64, ok bool, err error) {
	v, ok := m.value(key)
	if !ok {
		return 0, false, nil
	}
	switch i := v.(type) {
	case uint8:
		return int64(i), true, nil
	case int8:
		return int64(i), true, nil
	case uint16:
		return int64(i), true, nil
	case int16:
		return int64(i), true, nil
	case uint32:
		return int64(i), true, nil
	case int32:
		return int64(i), true, nil
	case uint64:
		return int64(min(i, 1<<62)), true, nil
	case int64:
		return i, true, nil
	case int:
		return int64(i), true, nil
	}
	return 0, false, typeError(key, v, "an integer")
}

func (m metadata) texts(key string) ([]string, error) {
	v, ok := m.value(key)
	if !ok {
		return nil, nil
	}
	s, ok := v.([]string)
	if !ok {
		return nil, typeError(key, v, "[]string")
	}
	return s, nil
}

// bytes reads an array of bytes, signed or not.
func (m metadata) bytes(key string) ([]byte, error) {
	v, ok := m.value(key)
	if !ok {
		return nil, nil
	}
	switch s := v.(type) {
	case []uint8:
		return s, nil
	case []int8:
		b := make([]byte, len(s))
		for i, c := range s {
			b[i] = byte(c)
		}
		return b, nil
	}
	return nil, typeError(key, v, "an array of bytes")
}

// numbers reads an array of any integer or float type as float64, which holds
// every int32 and float32 exactly.
func (m metadata) numbers(key string) ([]float64, error) {
	v, ok := m.value(key)
	if !ok {
		return nil, nil
	}
	switch s := v.(type) {
	case []float32:
		return widen(s), nil
	case []float64:
		return s, nil
	case []uint8:
		return widen(s), nil
	case []int8:
		return widen(s), nil
	case []uint16:
		return widen(s), nil
	case []int16:
		return widen(s), nil
	case []uint32:
		return widen(s), nil
	case []int32:
		return widen(s), nil
	case []uint64:
		return widen(s), nil
	case []int64:
		return widen(s), nil
	}
	return nil, typeError(key, v, "an array of numbers")
}

type number interface {
	~uint8 | ~int8 | ~uint16 | ~int16 | ~uint32 | ~int32 | ~uint64 | ~int64 | ~float32
}

func widen[T number](s []T) []float64 {
	wide := make([]float64, len(s))
	for i, v := range s {
		wide[i] = float64(v)
	}
	return wide
}
