package llm

import "weir/engine/kernel/recurrence"

// qwen3next covers Qwen3-Next and Qwen3-Coder-Next: Qwen3.5 with experts, whose delta rule has heads in another order and matrices in fewer tensors.
var qwen3next = architecture{
	name: "qwen3next", drafts: true, mtp: true, sections: true, experts: required, recurrent: recurrence.Delta, neighbour: true, plan: qwen35moe.plan,
}
