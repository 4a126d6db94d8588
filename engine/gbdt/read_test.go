package gbdt

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"weir/internal/reference"
)

func TestReadNamesForeignFiles(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"nothing":        {"", "empty"},
		"spaces":         {" \n\t ", "empty"},
		"pickle":         {"\x80\x04\x95\x10\x00\x00", "pickle"},
		"cbm":            {"CBM1\x00\x01\x02", "save_model('model.json', format='json')"},
		"binf":           {"binf\x00\x00\x00\x3f", "XGBoost's binary format"},
		"old binary":     {"\x00\x00\x00\x3f" + strings.Repeat("\x00", 132) + "\x0e\x00\x00\x00\x00\x00\x00\x00binary:logistic\x06\x00gbtree", "XGBoost's binary format"},
		"booster pickle": {"CONFIG-offset:\x00", "save_model('model.json')"},
		"text dump":      {"booster[0]:\n0:[f0<1] yes=1,no=2\n", "text dump"},
		"ONNX":           {"\x08\x08\x12\x08skl2onnx", "ONNX"},
		"GGUF":           {"GGUF\x03\x00\x00\x00", "GGUF"},
		"zip":            {"PK\x03\x04\x14\x00", "ZIP"},
		"gzip":           {"\x1f\x8b\x08\x00", "gzip"},
		"zstd":           {"\x28\xb5\x2f\xfd\x04", "zstd"},
		"XML":            {"<?xml version='1.0'?><PMML/>", "PMML"},
		"text":           {"hello, world", `begins with "hello, world"`},
		"other JSON":     {`{"weights": [1], "a": 2}`, "its keys are weights, a"},
		"no keys":        {`{}`, "its keys are none"},
		"LightGBM JSON":  {`{"name":"tree","tree_info":[{}],"feature_infos":{}}`, "save_model (text)"},
		"JSON list":      {`[1, 2]`, "no format"},
		"broken JSON":    {`{"learner": `, "ends early"},
		"broken UBJSON":  {"{L\x00\x00\x00\x00\x00\x00\x00\x07learn", "a length of 7"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// firstGolden gives the model of a golden file.
func firstGolden(t testing.TB, name string) []byte {
	t.Helper()
	g, err := readGolden(filepath.Join("testdata", "golden", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	return g.model
}

// TestReadRefuses changes one thing in a good file.
func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ model, old, new, want string }{
		{"xgboost-missing", `"learner_model_param"`, `"x"`, "learner_model_param"},
		{"xgboost-missing", `"num_feature":"8","num_target"`, `"num_feature":"8x","num_target"`, "num_feature"},
		{"xgboost-missing", `"num_feature":"8","num_target"`, `"num_feature":"2000000000","num_target"`, "features"},
		{"xgboost-missing", `"num_feature":"8","num_target"`, `"num_feature":"3","num_target"`, "of 3"},
		{"xgboost-softmax", `"num_class":"3","num_f`, `"num_class":"5","num_f`, "base_score"},
		{"xgboost-missing", `"num_class":"0"`, `"num_class":"-1000000000000"`, "num_class"},
		{"xgboost-missing", `"base_score":"[`, `"base_score":"[1,`, "base_score"},
		{"xgboost-missing", `"base_score":"[`, `"base_score":"[x`, "base_score"},
		{"xgboost-missing", `"reg:squarederror"`, `"my:objective"`, `objective "my:objective" is unknown`},
		{"xgboost-missing", `"name":"gbtree"`, `"name":"gblinear"`, `booster "gblinear"`},
		{"xgboost-missing", `"tree_info":[0`, `"tree_info":[1`, "output 1 of 1"},
		{"xgboost-missing", `"tree_info":[0`, `"tree_info":[0,0`, "tree_info of 13"},
		{"xgboost-missing", `"tree_info":[0`, `"tree_info":[0.5`, "0.5"},
		{"xgboost-missing", `"id":1,`, `"id":0,`, "the id 0"},
		{"xgboost-missing", `"id":1,`, `"id":12,`, "the id 12"},
		{"xgboost-missing", `"left_children":[1,`, `"left_children":[`, "right_children"},
		{"xgboost-missing", `"left_children":[1,`, `"left_children":[0,`, "descendant"},
		{"xgboost-missing", `"left_children":[1,`, `"left_children":[100000,`, "node 100000"},
		{"xgboost-missing", `"left_children":[1,`, `"left_children":[1.5,`, "1.5"},
		{"xgboost-missing", `"split_conditions"`, `"conditions"`, `"split_conditions" is missing`},
		{"xgboost-missing", `"split_type":[0,`, `"split_type":[1,`, "has none"},
		{"xgboost-missing", `"split_type":[0,`, `"split_type":[`, "split_type"},
		{"xgboost-missing", `"trees":[{`, `"trees":7,"t":[{`, "\"trees\" is 7, not a list"},
		{"xgboost-missing", `"size_leaf_vector":"1"`, `"size_leaf_vector":"3"`, "leaves of 3 values"},
		{"xgboost-categorical", `"categories_sizes":[`, `"categories_sizes":[7000,`, "categories"},
		{"xgboost-categorical", `"categories":[`, `"categories":[-1,`, "category -1"},
		{"xgboost-categorical", `"categories":[`, `"categories":[16777216,`, "category"},
		{"xgboost-dart", `"weight_drop":[`, `"weight_drop":[1,`, "weight_drop of 21"},
		{"lightgbm-regression", "version=v4", "version=v5", `version "v5"`},
		{"lightgbm-regression", "max_feature_idx=7", "max_feature_idx=-1", "0 features"},
		{"lightgbm-regression", "max_feature_idx=7", "max_feature_idx=2", "of 3"},
		{"lightgbm-regression", "num_class=1\n", "num_class=\n", "num_class"},
		{"lightgbm-regression", "num_tree_per_iteration=1", "num_tree_per_iteration=5", "12 trees"},
		{"lightgbm-regression", "objective=regression", "objective=mine", `objective "mine"`},
		{"lightgbm-binary", "sigmoid:0.7", "sigmoid:-1", "steepness"},
		{"lightgbm-regression", "num_leaves=31", "num_leaves=0", "num_leaves is 0"},
		{"lightgbm-regression", "num_leaves=31", "num_leaves=2000000000", "num_leaves is 2000000000"},
		{"lightgbm-regression", "num_leaves=31", "num_leaves=30", "leaf_value has 31"},
		{"lightgbm-regression", "left_child=1 ", "left_child=0 ", "descendant"},
		{"lightgbm-regression", "left_child=1 ", "left_child=-900 ", "node 929"},
		{"lightgbm-regression", "left_child=1 ", "left_child=30 ", "a child is node"},
		{"lightgbm-regression", "left_child=1 ", "left_child=x ", `element 0 is "x"`},
		{"lightgbm-regression", "decision_type=2 ", "decision_type=14 ", "kind 3"},
		{"lightgbm-regression", "decision_type=2 ", "decision_type=1 ", "category set"},
		{"lightgbm-regression", "threshold=", "threshold=nan ", "threshold"},
		{"lightgbm-regression", "end of trees", "", "cut off"},
		{"lightgbm-regression", "Tree=5\n", "Three=5\n", "11 trees, but 12 tree_sizes"},
		{"lightgbm-linear", "num_features=", "num_features=100000 ", "num_features"},
		{"lightgbm-categorical", "cat_boundaries=0 ", "cat_boundaries=5 ", "cat_boundaries"},
		{"lightgbm-categorical", "cat_threshold=", "cat_threshold=-7 ", "cat_threshold"},
		{"catboost-regression", `"features_info"`, `"x"`, "features_info"},
		{"catboost-regression", `"flat_feature_index": 7`, `"flat_feature_index": 100000000`, "flat_feature_index"},
		{"catboost-regression", `"nan_value_treatment": "AsIs"`, `"nan_value_treatment": "x"`, "nan_value_treatment"},
		{"catboost-regression", `"split_type": "FloatFeature"`, `"split_type": "OnlineCtr"`, "split_type OnlineCtr"},
		{"catboost-regression", `"split_type": "FloatFeature"`, `"cat_feature_index": 3, "split_type": "OneHotFeature"`, "cat_feature_index 3"},
		{"catboost-regression", `"float_feature_index": 1`, `"float_feature_index": 8`, "8 of 8"},
		{"catboost-regression", `"leaf_values": [`, `"leaf_values": [1, `, "65 leaf_values"},
		{"catboost-regression", `"border": `, `"border": "x", "b": `, "border"},
		{"catboost-regression", `"scale_and_bias": [`, `"scale_and_bias": [1, `, "scale_and_bias"},
		{"catboost-regression", `"RMSE"`, `"RMSEWithUncertainty"`, "RMSEWithUncertainty"},
		{"catboost-leafwise", `"left": {`, `"left_": {`, `"left" is missing`},
		{"catboost-leafwise", `"value": `, `"value": "", "v": `, "value"},
		{"catboost-depthwise-multiclass", `"value": [`, `"value": [1, `, "4 values, not 3"},
	} {
		t.Run(c.model+" "+c.new, func(t *testing.T) {
			data := string(firstGolden(t, c.model))
			if !strings.Contains(data, c.old) {
				t.Fatalf("the model has no %q", c.old)
			}
			_, err := Read([]byte(strings.Replace(data, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestObjectivesOfLightGBM(t *testing.T) {
	data := string(firstGolden(t, "lightgbm-regression"))
	for text, want := range map[string]Transform{
		"xentlambda": Log1pExp, "xentropy": Sigmoid, "regression sqrt": SignedSquare, "huber sqrt": Identity, "tweedie": Exp, "custom": Identity,
	} {
		m, err := Read([]byte(strings.Replace(data, "objective=regression", "objective="+text, 1)))
		if err != nil || m.Ensemble().Transform != want {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	m, err := Read([]byte(strings.Replace(data, "objective=regression\n", "", 1)))
	if err != nil || m.Ensemble().Transform != Identity {
		t.Errorf("a model of the caller's own objective: %v", err)
	}
}

func TestBaseScoreForms(t *testing.T) {
	data := string(firstGolden(t, "xgboost-missing"))
	at := strings.Index(data, `"base_score":"`) + len(`"base_score":"`)
	end := at + strings.IndexByte(data[at:], '"')
	for _, c := range []struct {
		text string
		want float64
	}{{"5E-1", 0.5}, {"[5E-1]", 0.5}, {"2", 2}, {"[ -3 ]", -3}, {"0.1", float64(float32(0.1))}} {
		m, err := Read([]byte(data[:at] + c.text + data[end:]))
		if err != nil || m.Ensemble().Base[0] != c.want {
			t.Errorf("base_score %q: %v, want %v", c.text, err, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	for name, want := range map[string]Summary{
		"xgboost-categorical": {Format: "xgboost json", Version: "3.2.0", Objective: "reg:squarederror", Transform: "identity",
			Features: 8, Outputs: 1, Trees: 12, DepthMax: 6, DepthMean: 6, Categorical: 3},
		"lightgbm-linear": {Format: "lightgbm text", Version: "v4", Objective: "regression", Transform: "identity",
			Features: 8, Outputs: 1, Trees: 12, Linear: true, Double: true},
		"catboost-multiclass": {Format: "catboost json", Version: "1.2.10", Objective: "MultiClass", Transform: "softmax",
			Features: 8, Outputs: 4, Trees: 12, Nodes: 180, Leaves: 192, DepthMax: 4, DepthMean: 4, Double: true},
	} {
		data := firstGolden(t, name)
		m, err := Read(data)
		if err != nil {
			t.Fatal(err)
		}
		got := m.Summary()
		if got.Kernel == "" || got.Leaves != got.Nodes+got.Trees || got.Bytes != len(data) || got.DepthMean > float64(got.DepthMax) {
			t.Errorf("%s: %+v", name, got)
		}
		got.Kernel, got.Bytes = "", 0
		if want.Nodes == 0 {
			got.Nodes, got.Leaves = 0, 0
		}
		if want.DepthMax == 0 {
			got.DepthMax, got.DepthMean = 0, 0
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want)
		}
	}
}

func TestEarlyStoppingIsNoted(t *testing.T) {
	data := string(firstGolden(t, "xgboost-missing"))
	for attribute, notes := range map[string]int{`{"best_iteration":"4"}`: 1, `{"best_iteration":"11"}`: 0, `{"best_iteration":"x"}`: 0, `{}`: 0} {
		m, err := Read([]byte(strings.Replace(data, `"attributes":{}`, `"attributes":`+attribute, 1)))
		if err != nil || len(m.Summary().Notes) != notes || (notes > 0 && !strings.Contains(m.Summary().Notes[0], "first 5 of 12")) {
			t.Errorf("%s: %q, %v", attribute, m.Summary().Notes, err)
		}
	}
}

func TestClassesAndNames(t *testing.T) {
	m, err := Read(firstGolden(t, "catboost-multiclass"))
	if err != nil || strings.Join(m.Ensemble().Classes, " ") != "0 1 2 3" {
		t.Errorf("classes %v, %v", m.Ensemble().Classes, err)
	}
	m, err = Read(firstGolden(t, "lightgbm-regression"))
	if err != nil || len(m.FeatureNames()) != 8 || m.FeatureNames()[7] != "Column_7" {
		t.Errorf("names %v, %v", m.FeatureNames(), err)
	}
	data := strings.Replace(string(firstGolden(t, "xgboost-missing")), `"feature_names":[]`, `"feature_names":["a","b","c","d","e","f","g","\u00e4\""]`, 1)
	m, err = Read([]byte(data))
	if err != nil || m.FeatureNames()[7] != `ä"` {
		t.Errorf("names %v, %v", m.FeatureNames(), err)
	}
}

func TestJSONEqualsEncodingJSON(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `{"a":[],"b":{}}`, `[1,2.5,-3e-2,1e400]`, `[true,false,1]`, `[1,"x",null,{"k":[2]}]`, `"\u00e4\n\\\""`, ` { "a" : [ 1 , 2 ] } `,
		`-0`, `[[1],[2,[3]]]`, `12345678901234567890`,
	} {
		got, err := parseJSON([]byte(text), 64)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var want any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "1e400", "1e308")), &want); err != nil {
			t.Fatal(err)
		}
		if g, w := plain(got), plain(want); g != strings.ReplaceAll(w, "1e+308", "+Inf") {
			t.Errorf("%s: %s, want %s", text, g, w)
		}
	}
	for _, text := range []string{``, `{`, `[1,]`, `[1 2]`, `{"a"}`, `{"a":1,}`, `{a:1}`, `"x`, `tru`, `1.2.3`, `0x10`, `--1`, `[1]]`, `+1`, `.`, `1_0`,
		`{"a" 1}`, `"\x"`, strings.Repeat("[", 1000)} {
		if v, err := parseJSON([]byte(text), 64); err == nil {
			t.Errorf("%s: %v, want an error", text, v)
		}
	}
}

// plain writes a document in one way whether its lists are of numbers or of anything.
func plain(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatFloat(truth(v), 'g', -1, 64)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []float64:
		var parts []string
		for _, x := range v {
			parts = append(parts, plain(x))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case []any:
		var parts []string
		for _, x := range v {
			parts = append(parts, plain(x))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case object:
		m := make(map[string]string)
		for _, f := range v {
			m[f.key] = plain(f.value)
		}
		return fmt.Sprint(m)
	case map[string]any:
		m := make(map[string]string)
		for k, x := range v {
			m[k] = plain(x)
		}
		return fmt.Sprint(m)
	}
	return fmt.Sprintf("%q", v)
}

func TestJSONRoundsOnce(t *testing.T) {
	// Halfway between two float32s and a little more: the float64 nearest to the text is the midpoint itself.
	const text = "1.00000005960464477540"
	v, err := parseJSON([]byte(text), 32)
	if want := float64(math.Nextafter32(1, 2)); err != nil || v != want {
		t.Errorf("%v, %v, want %v", v, err, want)
	}
	if v, err := parseJSON([]byte("16777217"), 32); err != nil || v != 16777217.0 {
		t.Errorf("a whole number is %v, %v", v, err)
	}
}

func TestUBJSONTypes(t *testing.T) {
	for text, want := range map[string]string{
		"{U\x01ai\xffU\x01bU\xffU\x01cI\xff\xfeU\x01dl\x00\x01\x00\x00}": "map[a:-1 b:255 c:-2 d:65536]",
		"[d\x3f\x00\x00\x00D\x3f\xf0\x00\x00\x00\x00\x00\x00]":           "[0.5 1]",
		"[$I#i\x02\x00\x05\xff\xff":                                      "[5 -1]",
		"[#U\x03ZTSU\x02hi":                                              `['%!q(<nil>)' 1 "hi"]`,
		"{#i\x01i\x01aN[]":                                               "map[a:[]]",
	} {
		v, err := parseUBJSON([]byte(text))
		if err != nil || strings.ReplaceAll(plain(v), "%!q(<nil>)", "'%!q(<nil>)'") != want {
			t.Errorf("%q: %s, %v, want %s", text, plain(v), err, want)
		}
	}
	for _, text := range []string{"", "{", "[", "[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", "[$Z#L\x00\x00\x00\x00\x00\x00\x01\x00", "[$d", "{Ld}", "{U\x05a}",
		"[#d\x3f\x80\x00\x00i\x01", "Q", "i\x01i\x02", "[#l\xff\xff\xff\xff", strings.Repeat("[", 1000), "{$i#i\x01i\x01a\x01"} {
		if v, err := parseUBJSON([]byte(text)); err == nil {
			t.Errorf("%q: %v, want an error", text, v)
		}
	}
}

// asUBJSON writes a JSON document as XGBoost writes UBJSON: lists of numbers have a type and a count.
func asUBJSON(t testing.TB, data []byte) []byte {
	t.Helper()
	document, err := parseJSON(data, 32)
	if err != nil {
		t.Fatal(err)
	}
	return appendUBJSON(nil, document)
}

func appendUBJSON(b []byte, v any) []byte {
	text := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint64(append(b, 'L'), uint64(len(s))), s...)
	}
	switch v := v.(type) {
	case bool:
		return append(b, "FT"[int(truth(v))])
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'D'), math.Float64bits(v))
	case string:
		return text(append(b, 'S'), v)
	case []float64:
		b = binary.BigEndian.AppendUint64(append(b, "[$D#L"...), uint64(len(v)))
		for _, x := range v {
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
		}
		return b
	case []any:
		b = append(b, '[')
		for _, x := range v {
			b = appendUBJSON(b, x)
		}
		return append(b, ']')
	case object:
		b = append(b, '{')
		for _, f := range v {
			b = appendUBJSON(text(b, f.key), f.value)
		}
		return append(b, '}')
	}
	return append(b, 'Z')
}

// TestUBJSONEqualsJSON reads XGBoost's models of JSON as UBJSON too.
func TestUBJSONEqualsJSON(t *testing.T) {
	n := 0
	goldens(t, func(t *testing.T, g *golden) {
		want, err := read(g.model, ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want.Format != "xgboost json" {
			return
		}
		got, err := read(asUBJSON(t, g.model), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got.Format = want.Format
		if n++; !reflect.DeepEqual(got, want) {
			t.Error("the ensembles differ")
		}
	})
	if n < 8 {
		t.Errorf("%d models", n)
	}
}

// TestMutants changes bytes of every golden model. Whatever a file says, reading it neither panics nor takes memory out of
// proportion, and a model that is read predicts.
func TestMutants(t *testing.T) {
	reference.Slow(t)
	perModel := 12
	if n, err := strconv.Atoi(os.Getenv("WEIR_TEST_GBDT_MUTANTS")); err == nil {
		perModel = n
	}
	total, good := 0, 0
	var largest uint64
	goldens(t, func(t *testing.T, g *golden) {
		r := rand.New(rand.NewPCG(uint64(len(g.model)), 7))
		for range perModel {
			mutant := mutate(r, g.model)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m, err := Read(mutant)
			runtime.ReadMemStats(&after)
			took := after.TotalAlloc - before.TotalAlloc
			largest = max(largest, took)
			if limit := uint64(64<<20 + 60*len(mutant)); took > limit {
				t.Errorf("%d bytes of a mutant took %d bytes of memory, %v", len(mutant), took, err)
			}
			total++
			if err != nil || m.Features() > 1<<16 || m.Outputs() > 1<<10 {
				continue
			}
			good++
			rows := make([]float64, 3*m.Features())
			for i := range rows {
				rows[i] = r.NormFloat64()
			}
			m.Predict64(rows, make([]float64, 3*m.Outputs()))
		}
	})
	t.Logf("%d mutants, %d of them still models, at most %d bytes allocated", total, good, largest)
}

// TestHostileFiles has files that ask for far more memory than they have bytes.
func TestHostileFiles(t *testing.T) {
	const node = `"left_children":[1,-1,-1],"right_children":[2,-1,-1],"split_indices":[0,0,0],"split_conditions":[0,1,2],` +
		`"default_left":[0,0,0],"split_type":[1,0,0],"categories_nodes":[0],"categories_segments":[0],"categories_sizes":[1],` +
		`"categories":[16777215]`
	sets := strings.NewReplacer("TREES", strings.Repeat("{"+node+"},", 499)+"{"+node+"}", "INFO", strings.Repeat("0,", 499)+"0").Replace(
		`{"learner":{"gradient_booster":{"model":{"tree_info":[INFO],"trees":[TREES]},"name":"gbtree"},"learner_model_param":` +
			`{"base_score":"1","num_class":"0","num_feature":"2"},"objective":{"name":"reg:linear"}}}`)
	header := "tree\nversion=v3\nnum_class=1\nmax_feature_idx=1\n\nTree=0\n"
	nodes := 20_000 // one under the other
	var left, right strings.Builder
	for n := range nodes {
		fmt.Fprintf(&left, "%d ", n+1)
		fmt.Fprintf(&right, "%d ", ^n)
	}
	shared := header + fmt.Sprintf("num_leaves=%d\nnum_cat=1\nsplit_feature=%s\nthreshold=%s\ndecision_type=%s\nleft_child=%s\nright_child=%s\n"+
		"leaf_value=%s\ncat_boundaries=0 %d\ncat_threshold=%s\n\nend of trees\n", nodes+1, strings.Repeat("0 ", nodes),
		strings.Repeat("0 ", nodes), strings.Repeat("1 ", nodes), strings.Replace(left.String(), " 20000 ", " -20001 ", 1), right.String(),
		strings.Repeat("1 ", nodes+1), 50_000, strings.Repeat("1 ", 50_000))
	for name, data := range map[string]string{
		"sets of few categories": sets,
		"nodes that share a set": shared,
		"a set that is promised": header + "num_leaves=2\nleaf_value=1 2\nsplit_feature=0\nthreshold=0\ndecision_type=1\n" +
			"left_child=-1\nright_child=-2\nnum_cat=1000000000\ncat_boundaries=0 4000000000\ncat_threshold=1\n",
		"leaves that are promised":   header + "num_leaves=2147483647\nnum_cat=0\nleaf_value=1 2\n",
		"lists in lists":             `{"learner":` + strings.Repeat("[", 1<<20),
		"many small objects":         `{"learner":[` + strings.Repeat(`{"a":1},`, 1<<17) + `0]}`,
		"a typed list":               "{L\x00\x00\x00\x00\x00\x00\x00\x07learner[$D#L\x00\x00\x00\x7f\xff\xff\xff\xff",
		"an oblivious tree too deep": strings.Replace(smallCatBoost, `"splits":[`, `"splits":[`+strings.Repeat("0,", 40), 1),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read([]byte(data))
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		if err == nil || took > uint64(20<<20+100*len(data)) {
			t.Errorf("%s: %d bytes took %d, %v", name, len(data), took, err)
		}
		t.Logf("%s: %d bytes took %d: %.100v", name, len(data), took, err)
	}
}

// mutate changes, removes, repeats or cuts bytes, and puts large numbers in the place of others.
func mutate(r *rand.Rand, data []byte) []byte {
	mutant := append([]byte(nil), data...)
	for range 1 + r.IntN(3) {
		if len(mutant) < 2 {
			return mutant
		}
		at := r.IntN(len(mutant))
		if r.IntN(3) == 0 {
			at = r.IntN(min(len(mutant), 2000)) // the header
		}
		n := 1 + r.IntN(min(40, len(mutant)-at))
		switch r.IntN(7) {
		case 0:
			mutant[at] = byte(r.Uint32())
		case 1:
			mutant[at] ^= 1 << r.IntN(8)
		case 2:
			mutant = append(mutant[:at], mutant[at+n:]...)
		case 3:
			mutant = append(mutant[:at+n], mutant[at:]...)
		case 4:
			mutant = mutant[:at]
		default:
			// A number becomes another one.
			for at < len(mutant) && (mutant[at] < '0' || mutant[at] > '9') {
				at++
			}
			end := at
			for end < len(mutant) && mutant[end] >= '0' && mutant[end] <= '9' {
				end++
			}
			numbers := []string{"0", "-1", "1", "7", "255", "65536", "16777215", "2147483647", "4294967296", "1e300", "nan", "9999999999999999999"}
			mutant = append(mutant[:at:at], append([]byte(numbers[r.IntN(len(numbers))]), mutant[end:]...)...)
		}
	}
	return mutant
}
