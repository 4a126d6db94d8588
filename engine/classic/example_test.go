package classic_test

import (
	"context"
	"fmt"

	"weir/engine/classic"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/internal/tensor"
)

// A lane computes a request with a version that was loaded and has given its golden rows' outputs.
func Example() {
	model, golden := defaultmodel.Iris()
	source := classic.Source{Name: "iris", Data: model, GoldenData: golden, Options: classic.Options{Labels: defaultmodel.IrisClasses()}}
	version, err := source.Open(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer version.Close()
	lane, err := classic.NewLane(classic.LaneOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	flower := tensor.Of("input", tensor.Float32, []int64{1, 4}, []float32{6.3, 3.3, 6.0, 2.5})
	p := &inference.Prediction{Tenant: "acme", Inputs: []tensor.Tensor{flower}}
	if err := lane.Predict(context.Background(), version, p); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(version.Describe().Labels[p.Outputs[0].Name])
	fmt.Printf("%.2f\n", tensor.Values[float32](&p.Outputs[0]))
	fmt.Println(lane.Close(context.Background()))
	// Output:
	// [setosa versicolor virginica]
	// [0.01 0.01 0.99]
	// <nil>
}

// A row of another width is refused with what the model takes.
func ExampleVersion_Score() {
	model, _ := defaultmodel.Iris()
	version, err := classic.Load([]byte(model), "iris", classic.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer version.Close()
	fmt.Println(version.Columns())
	short := tensor.Of("input", tensor.Float32, []int64{1, 3}, []float32{6.3, 3.3, 6.0})
	_, err = version.Score([]tensor.Tensor{short})
	fmt.Println(err)
	// Output:
	// [sepal_length sepal_width petal_length petal_width]
	// invalid request: model "iris": input "input" has shape [1 3]; the model takes "input" of shape [-1 4], where -1 is the number of rows
}
