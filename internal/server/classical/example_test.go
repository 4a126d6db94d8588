package classical_test

import (
	"context"
	"fmt"

	"weir/engine/classic"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/internal/server/classical"
	"weir/internal/tensor"
)

// The built-in model of irises is loaded, checked against its golden rows, and answers a row.
func Example() {
	ctx := context.Background()
	lane, err := classic.NewLane(classic.LaneOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lane.Close(ctx) // nothing runs any more
	models := classical.New(classical.Options{Lane: lane})
	defer models.Close()
	model, golden := defaultmodel.Iris()
	commit, _, err := models.Prepare(ctx, []classical.Source{{Source: classic.Source{
		Name: "iris", Data: model, GoldenData: golden, Options: classic.Options{Labels: defaultmodel.IrisClasses()},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	commit()
	v, hold, err := models.Acquire("iris", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Release()
	p := inference.Prediction{Hold: hold, Inputs: []tensor.Tensor{tensor.Of(v.Describe().Inputs[0].Name, tensor.Float32, []int64{1, 4}, []float32{5.1, 3.5, 1.4, 0.2})}}
	if err := v.Predict(ctx, &p); err != nil {
		fmt.Println(err)
		return
	}
	for _, out := range p.Outputs {
		fmt.Printf("%s %.2f of %v\n", out.Name, tensor.Values[float32](&out), defaultmodel.IrisClasses())
	}
	// Output: output [0.99 0.01 0.00] of [setosa versicolor virginica]
}
