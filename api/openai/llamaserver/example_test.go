package llamaserver_test

import (
	"fmt"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/llamaserver"
	"weir/api/openai/models"
)

// A request of llama.cpp's server is a completion with other names.
func ExampleRead() {
	read := func(o *job.Body, _ *models.Model) (*job.Job, *api.Error) {
		fmt.Println(string(o.AppendJSON(nil)))
		return nil, api.Refuse("model_not_found", "none in this example")
	}
	o, fault := job.ReadBody([]byte(`{"prompt":"Hi","n_predict":8,"n_probs":3,"seed":-1,"cache_prompt":true,"logit_bias":[[5,false]]}`), true)
	if fault == nil {
		_, fault = llamaserver.Read(read, o, &models.Model{})
	}
	fmt.Println(fault.Code)
	// Output:
	// {"prompt":"Hi","n_predict":8,"logprobs":3,"logit_bias":{"5":-100},"parse_special":true,"return_token_ids":true}
	// model_not_found
}
