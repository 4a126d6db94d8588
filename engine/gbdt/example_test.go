package gbdt_test

import (
	"fmt"
	"math"

	"weir/engine/gbdt"
	"weir/internal/defaultmodel"
)

// A model file is read whatever library wrote it. Its rows are the flowers' measures, its outputs the species' probabilities.
func Example() {
	file, _ := defaultmodel.Iris()
	m, err := gbdt.Read([]byte(file))
	if err != nil {
		fmt.Println(err)
		return
	}
	s := m.Summary()
	fmt.Println(s.Format, s.Trees, "trees of", m.FeatureNames())
	rows := []float32{5.1, 3.5, 1.4, 0.2, 6.3, 3.3, 6.0, 2.5}
	out := make([]float32, 2*m.Outputs())
	m.Predict32(rows, out)
	fmt.Printf("%.2f\n%.2f\n", out[:3], out[3:])
	// Output:
	// xgboost json 36 trees of [sepal_length sepal_width petal_length petal_width]
	// [0.99 0.01 0.00]
	// [0.01 0.01 0.99]
}

// A tree is built by hand: 10 below 0.5 and where the value is missing, else 20.
func ExampleEnsemble_Add() {
	e := &gbdt.Ensemble{Features: 1, Outputs: 1, Width: 1, Rows64: true, Sums64: true, Less: true}
	err := e.Add([]gbdt.Node{
		{Left: 1, Right: 2, Threshold: 0.5, Rule: gbdt.MissingLeft},
		{Left: -1, Right: -1, Value: 10},
		{Left: -1, Right: -1, Value: 20},
	}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := gbdt.New(e)
	if err != nil {
		fmt.Println(err)
		return
	}
	out := make([]float64, 3)
	m.Predict64([]float64{0.2, 0.8, math.NaN()}, out)
	fmt.Println(out)
	// Output:
	// [10 20 10]
}
