package predict_test

import (
	"context"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api/edge"
	"weir/api/predict"
	"weir/api/tenant"
	"weir/internal/tensor"
	"weir/router"
)

// sums is a model that adds each row up.
type sums struct{}

func (sums) Describe() *router.Description {
	return &router.Description{Name: "sums", Version: "1", MaxRows: 100,
		Inputs:  []tensor.Spec{{Name: "x", Type: tensor.Float64, Shape: []int64{tensor.Any, 2}}},
		Outputs: []tensor.Spec{{Name: "sum", Type: tensor.Float64, Shape: []int64{tensor.Any}}}}
}

func (sums) Predict(_ context.Context, p *router.Prediction) error {
	var out []float64
	x := tensor.Values[float64](&p.Inputs[0])
	for i := 0; i < len(x); i += 2 {
		out = append(out, x[i]+x[i+1])
	}
	p.Outputs = []tensor.Tensor{tensor.Of("sum", tensor.Float64, []int64{int64(len(out))}, out)}
	return nil
}

// models is a server's table with one model.
type models struct{ router.Predictors }

func (models) Acquire(string, string) (router.Predictor, router.Hold, error) { return sums{}, nil, nil }

// The same model answers in TensorFlow Serving's protocol and in the Open Inference Protocol.
func Example() {
	callers, err := tenant.NewAuthenticator(context.Background(), tenant.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := predict.New(predict.Config{Callers: callers, Models: models{}, Ready: func() (bool, string) { return true, "" }, MaxRequestBytes: 1 << 20, AbortTimeout: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := edge.NewMux(edge.MuxConfig{Callers: callers}, s)
	for _, r := range []struct{ path, body string }{
		{"/v1/models/sums:predict", `{"instances": [[1, 2], [3, 4]]}`},
		{"/v2/models/sums/infer", `{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [5, 6]}]}`},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.Header.SetRequestURI(r.path)
		ctx.Request.SetBodyString(r.body)
		mux.Handle(&ctx)
		fmt.Println(ctx.Response.StatusCode(), string(ctx.Response.Body()))
	}
	// Output:
	// 200 {"predictions":[3.0,7.0]}
	// 200 {"model_name":"sums","model_version":"1","outputs":[{"name":"sum","datatype":"FP64","shape":[1],"data":[11.0]}]}
}
