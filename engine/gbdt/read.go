package gbdt

import (
	"bytes"
	"errors"
	"fmt"
)

// ReadOptions say how a file is read. The zero value goes by the file alone.
type ReadOptions struct {
	// Transform makes outputs of margins instead of what the file's objective says; nil: as it says. Files whose objective does
	// not tell need it.
	Transform *Transform
	// BestIteration keeps the trees up to the iteration that early stopping chose, where the file names one (XGBoost). LightGBM
	// and CatBoost save no others by default.
	BestIteration bool
}

// ErrFormat is a file of none of the formats.
var ErrFormat = errors.New("the file has no format known here")

// Read finds the format of a model's bytes by their content and reads it: XGBoost JSON and UBJSON, LightGBM text, CatBoost
// JSON. It says what it found where it is none of them.
func Read(data []byte) (*Model, error) { return ReadWith(data, ReadOptions{}) }

// ReadWith is Read with a say in what the file leaves open.
func ReadWith(data []byte, o ReadOptions) (*Model, error) {
	e, err := read(data, o)
	if err != nil {
		return nil, fmt.Errorf("gbdt: %w", err)
	}
	m, err := New(e)
	if err != nil {
		return nil, fmt.Errorf("%w (in a file of the format %s)", err, e.Format)
	}
	m.bytes = len(data)
	return m, nil
}

func read(data []byte, o ReadOptions) (*Ensemble, error) {
	trimmed := bytes.TrimLeft(data, " \t\r\n\ufeff")
	switch {
	case len(trimmed) == 0:
		return nil, errors.New("the file is empty")
	case bytes.HasPrefix(trimmed, []byte("tree\n")), bytes.HasPrefix(trimmed, []byte("tree\r\n")):
		return readLightGBM(trimmed, o)
	case trimmed[0] == '{' && isUBJSON(trimmed):
		document, err := parseUBJSON(trimmed)
		if err != nil {
			return nil, err
		}
		return readXGBoost(document, "xgboost ubjson", len(data), o)
	case trimmed[0] == '{':
		return readJSON(trimmed, o)
	}
	return nil, foreign(data)
}

// isUBJSON says whether an object begins as one of UBJSON: with the type of its first key's length, or the object's.
func isUBJSON(data []byte) bool {
	return len(data) > 1 && (ubjsonWidth(data[1]) > 0 || data[1] == '$' || data[1] == '#')
}

func readJSON(data []byte, o ReadOptions) (*Ensemble, error) {
	// XGBoost's numbers are float32 and CatBoost's float64; the document has to be parsed as either.
	bits := 64
	if bytes.Contains(data, []byte(`"learner"`)) {
		bits = 32
	}
	document, err := parseJSON(data, bits)
	if err != nil {
		return nil, err
	}
	top, _ := document.(object)
	switch {
	case top.has("learner"):
		return readXGBoost(document, "xgboost json", len(data), o)
	case top.has("oblivious_trees"), top.has("trees") && top.has("features_info"):
		return readCatBoost(top, o)
	case top.has("tree_info") && top.has("feature_infos"):
		return nil, errors.New("this is LightGBM's dump_model as JSON, which lacks what exact predictions need: " +
			"save with save_model (text) instead")
	case top.has("tree_param"), top.has("Config") && top.has("Model"):
		return nil, errors.New("this is a part of XGBoost's state: save with Booster.save_model('model.json') or ('model.ubj')")
	}
	return nil, fmt.Errorf("%w: it is JSON, and its keys are %s; "+
		"XGBoost's has learner, CatBoost's has oblivious_trees", ErrFormat, keys(top))
}

// keys lists the first keys of an object for an error message.
func keys(o object) string {
	var b bytes.Buffer
	for i, f := range o {
		if i == 5 {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(shorten(f.key))
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

// signatures has formats that people try, by how their files begin, and the way out of each.
var signatures = []struct{ begins, answer string }{
	{"\x80\x02", pickle}, {"\x80\x03", pickle}, {"\x80\x04", pickle}, {"\x80\x05", pickle},
	{"CBM1", "this is CatBoost's binary format: save with save_model('model.json', format='json')"},
	{"binf", "this is " + oldXGBoost},
	{"CONFIG-offset:", "this is the state of an XGBoost booster: save it with Booster.save_model('model.json') instead"},
	{"booster[", "this is XGBoost's text dump, which has rounded numbers: save with Booster.save_model('model.json')"},
	{"0:[", "this is XGBoost's text dump, which has rounded numbers: save with Booster.save_model('model.json')"},
	{"GGUF", "this is a GGUF file, a language model or an encoder: give it to serve as the model"},
	{"PK\x03\x04", "this is a ZIP archive: give the model inside, as XGBoost JSON, LightGBM text, CatBoost JSON or ONNX"},
	{"\x1f\x8b", "this is compressed with gzip: decompress it"},
	{"\x28\xb5\x2f\xfd", "this is compressed with zstd: decompress it"},
	{"\x89HDF", "this is an HDF5 file: convert the model to ONNX"},
	{"<?xml", "this is XML, perhaps PMML: convert the model to ONNX"},
	{"<PMML", "this is PMML: convert the model to ONNX"},
}

const (
	pickle = "this is a Python pickle, which can run any code when it is loaded and is never read here: save with the library's own " +
		"save_model (XGBoost model.json, LightGBM model.txt, CatBoost format='json'), and convert scikit-learn with skl2onnx"
	oldXGBoost = "XGBoost's binary format, which XGBoost 3.1 gave up: load it with XGBoost before 3.1 and " +
		"save it as model.json or model.ubj"
)

// foreign says what a file is that is no tree model known here.
func foreign(data []byte) error {
	for _, s := range signatures {
		if bytes.HasPrefix(data, []byte(s.begins)) {
			return errors.New(s.answer)
		}
	}
	switch {
	// ONNX begins with its ir_version, field 1 as a varint, and then has text of the producer or a graph.
	case len(data) > 2 && data[0] == 0x08 && data[1] < 0x20 && (data[2] == 0x12 || data[2] == 0x3a || data[2] == 0x42):
		return errors.New("this is an ONNX model, which is read as such and not as trees alone")
	// The binary format without its magic begins with base_score, num_feature and num_class.
	case len(data) > 136 && bytes.Contains(data[:min(len(data), 512)], []byte("gbtree")),
		len(data) > 136 && bytes.Contains(data[:min(len(data), 512)], []byte("reg:")):
		return errors.New("this looks like " + oldXGBoost)
	}
	return fmt.Errorf("%w: it begins with %q; XGBoost JSON and UBJSON, LightGBM text and CatBoost JSON are read, and ONNX models, which begin with "+
		"the version of their format (a byte of 8)", ErrFormat, data[:min(len(data), 16)])
}
