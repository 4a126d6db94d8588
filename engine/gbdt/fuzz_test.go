package gbdt

import (
	"math"
	"testing"
)

// fuzz reads what happens to small models. A model that is read predicts the same with the walker and the chosen kernel.
func fuzz(f *testing.F, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := read(data, ReadOptions{})
		if err != nil {
			return
		}
		m, err := NewWith(e, Options{Kernel: "walk"})
		if err != nil || m.Features() > 1<<10 || m.Outputs() > 1<<10 || m.Summary().Trees > 1<<10 {
			return
		}
		rows := make([]float64, 3*m.Features())
		for i := range rows {
			rows[i] = float64(i%7) - 3
		}
		rows[0] = math.NaN()
		want, got := make([]float64, 3*m.Margins()), make([]float64, 3*m.Margins())
		m.Margins64(rows, want)
		if m, err = New(e); err != nil {
			t.Fatal(err)
		}
		m.Margins64(rows, got)
		for i := range want {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
				t.Errorf("margin %d is %v with the kernel %s, %v walked", i, got[i], m.kernelName(), want[i])
			}
		}
		m.Predict64(rows, make([]float64, 3*m.Outputs()))
	})
}

const smallXGBoost = `{"learner":{"feature_names":["a","b"],"gradient_booster":{"model":{"tree_info":[0],"trees":[{"id":0,` +
	`"left_children":[1,-1,3,-1,-1],"right_children":[2,-1,4,-1,-1],"split_indices":[0,0,1,0,0],"split_conditions":[0.5,1,0,2,3],` +
	`"default_left":[1,0,0,0,0],"split_type":[0,0,1,0,0],"categories_nodes":[2],"categories_segments":[0],"categories_sizes":[2],` +
	`"categories":[1,3],"tree_param":{"size_leaf_vector":"1"}}]},"name":"gbtree"},"learner_model_param":{"base_score":"[5E-1]",` +
	`"num_class":"0","num_feature":"2","num_target":"1"},"objective":{"name":"binary:logistic"}},"version":[3,1,0]}`

const smallVectors = `{"learner":{"feature_names":[],"gradient_booster":{"gbtree":{"model":{"tree_info":[0],"trees":[{"id":0,` +
	`"left_children":[1,-1,-1],"right_children":[2,1,0],"split_indices":[0,0,0],"split_conditions":[0.5,0,0],` +
	`"default_left":[true,false,false],"leaf_weights":[1,2,3,4],"tree_param":{"size_leaf_vector":"2"}}]}},"weight_drop":[0.5],` +
	`"name":"dart"},"learner_model_param":{"base_score":"[1,2]","num_class":"2","num_feature":"1"},` +
	`"objective":{"name":"multi:softmax"}},"version":[3,1,0]}`

const smallLightGBM = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=1\nobjective=binary sigmoid:1\nfeature_names=a b\n" +
	"tree_sizes=1\n\nTree=0\nnum_leaves=3\nnum_cat=1\nsplit_feature=0 1\nthreshold=0.5 0\ndecision_type=2 1\nleft_child=1 -1\nright_child=-3 -2\n" +
	"leaf_value=1 2 3\ncat_boundaries=0 1\ncat_threshold=10\nis_linear=1\nleaf_const=1 2 3\nnum_features=1 0 1\nleaf_features=0   1\nleaf_coeff=2   3\n\n" +
	"end of trees\n"

const smallCatBoost = `{"features_info":{"float_features":[{"flat_feature_index":0,"feature_index":0,"feature_id":"a","nan_value_treatment":"AsTrue"}]},` +
	`"model_info":{"params":{"loss_function":{"type":"MultiClass"}},"class_params":{"class_names":["x","y"]}},"scale_and_bias":[2,[0,1]],` +
	`"oblivious_trees":[{"leaf_values":[1,2,3,4],"splits":[{"border":0.5,"float_feature_index":0,"split_type":"FloatFeature"}]}]}`

const smallCatBoostNested = `{"features_info":{"float_features":[{"flat_feature_index":0,"feature_index":0,"nan_value_treatment":"AsIs"}]},` +
	`"model_info":{"params":{"loss_function":{"type":"RMSE"}}},"scale_and_bias":[1,0],"trees":[{"split":{"border":0.5,"float_feature_index":0,"split_type":"FloatFeature"},` +
	`"left":{"value":1},"right":{"value":2}}]}`

// TestSmallSeedsAreModels keeps the seeds of the fuzz targets good.
func TestSmallSeedsAreModels(t *testing.T) {
	for _, s := range []string{smallXGBoost, smallVectors, string(asUBJSON(t, []byte(smallXGBoost))), smallLightGBM, smallCatBoost, smallCatBoostNested} {
		if _, err := Read([]byte(s)); err != nil {
			t.Errorf("%v: %s", err, s[:40])
		}
	}
}

func FuzzXGBoostJSON(f *testing.F) { fuzz(f, smallXGBoost, smallVectors) }

func FuzzXGBoostUBJSON(f *testing.F) {
	fuzz(f, string(asUBJSON(f, []byte(smallXGBoost))), string(asUBJSON(f, []byte(smallVectors))))
}

func FuzzLightGBM(f *testing.F) { fuzz(f, smallLightGBM) }

func FuzzCatBoost(f *testing.F) { fuzz(f, smallCatBoost, smallCatBoostNested) }
