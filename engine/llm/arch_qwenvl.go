package llm

// qwen2vl and qwen3vl are the language models of Qwen2-VL, Qwen2.5-VL and Qwen3-VL, and qwen3vlmoe of its mixtures of experts: qwen2, qwen3 and qwen3moe, whose pairs turn by one of three positions of
// an image's patch. Those of texts are all the same.
var (
	qwen2vl = architecture{name: "qwen2vl", sections: true, plan: qwen2.plan}
	qwen3vl = architecture{name: "qwen3vl", sections: true, plan: qwen3.plan}

	qwen3vlmoe = architecture{name: "qwen3vlmoe", sections: true, experts: required, plan: qwen3moe.plan}
)
