package family

import "strings"

// The descriptors of families whose calls are JSON objects.
var (
	llama = &markup{
		openers: []string{"<|python_tag|>"}, crumbs: "}];,", read: readLlama, item: readCall, bare: bareLlama, lines: []string{"\n{", "\n[", `{"`}, body: pythonBody,
	}
	llama4 = &markup{
		openers: []string{"<|python_start|>", "<|python_tag|>"}, closers: []string{"<|python_end|>"}, crumbs: "}];,",
		read: readLlama, item: readCall, bare: bareLlama, lines: []string{"\n{", "\n[", `{"`}, body: pythonBody,
	}
	mistral = &markup{
		openers: []string{"[TOOL_CALLS]"}, crumbs: "]", read: readMistral, item: readCall, shortIDs: true,
		control: []string{"[ARGS]", "[CALL_ID]"},
	}
	granite = &markup{
		openers: []string{"<|tool_call|>", "<tool_call>"}, closers: []string{"<|/tool_call|>", "</tool_call>"}, crumbs: "}]", read: readObject, item: readCall,
	}
	functools = &markup{openers: []string{"functools["}, crumbs: "}]", read: readOpenedList, item: readCall}
	phi       = &markup{
		openers: []string{"<|tool_call|>", "functools["}, closers: []string{"<|/tool_call|>"}, crumbs: "}]", read: readPhi, item: readCall,
	}
	nemotron = &markup{
		openers: []string{"<TOOLCALL>"}, closers: []string{"</TOOLCALL>"}, crumbs: "}]", read: readObject, item: readCall,
	}
	longcat = &markup{
		openers: []string{"<longcat_tool_call>"}, closers: []string{"</longcat_tool_call>"}, crumbs: "}]", read: readObject, item: readCall,
	}
	internLM = &markup{
		openers: []string{"<|action_start|><|plugin|>"}, closers: []string{"<|action_end|>"}, crumbs: "}]", read: readObject, item: readCall,
	}
	apriel = &markup{
		openers: []string{"<tool_calls>"}, closers: []string{"</tool_calls>"}, crumbs: "}]", read: readObject, item: readCall,
		dropped: []string{"[END FINAL RESPONSE]"},
	}
	graniteCode = &markup{openers: []string{"<function_call>"}, crumbs: "}]", read: readObject, item: readCall}
	apertus     = &markup{
		openers: []string{"<|tools_prefix|>"}, closers: []string{"<|tools_suffix|>"}, crumbs: "}]", read: readObject, item: readKeyed,
	}
	gigachat = &markup{
		openers: []string{"<|function_call|>", "function call<|role_sep|>\n"}, closers: []string{"<|message_sep|>"},
		dropped: []string{"<|message_sep|>"}, read: readObject, item: readCall,
	}
	commandR7B = &markup{
		openers: []string{"<|START_ACTION|>"}, closers: []string{"<|END_ACTION|>"}, crumbs: "}]", read: readObject, item: readCall,
		dropped: []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
		texts:   []string{"<|START_RESPONSE|>", "<|START_TEXT|>"},
	}
	commandR = &markup{
		openers: []string{"Action:"}, closers: []string{"```"}, crumbs: "}]", read: readFenced, item: readCall,
		listing: "Action:",
	}
)

// The descriptors of families that name the tool before a value with the arguments.
var (
	kimi = &markup{
		sections: []string{"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"}, openers: []string{"<|tool_call_begin|>"},
		closers: []string{"<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_section_end|>"},
		crumbs:  "}", read: readKimi, control: []string{"<|tool_call_argument_begin|>"}, noise: true,
	}
	deepSeek = &markup{
		sections: []string{"<｜tool▁calls▁begin｜>"}, openers: []string{"<｜tool▁call▁begin｜>"},
		closers: []string{"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
		crumbs:  "}", read: readDeepSeek, control: []string{"<｜tool▁sep｜>"},
	}
	solar = &markup{
		sections: []string{"<|tool_calls|>"}, openers: []string{"<|tool_call:begin|>"}, closers: []string{"<|tool_call:end|>", "<|calls|>"},
		dropped: []string{"<|begin|>assistant", "<|content|>", "<|end|>", "<|flush|>"}, crumbs: "}", read: readSolar,
		control: []string{"<|tool_call:name|>", "<|tool_call:args|>"},
	}
	functionary31 = &markup{
		openers: []string{"<function="}, closers: []string{"</function>"}, crumbs: "}", read: readFunction,
	}
	functionary32 = &markup{
		openers: []string{">>>"}, dropped: []string{">>>all\n"}, crumbs: "}", read: readLine, opening: functionaryOpening,
	}
	gemma = &markup{
		openers: []string{"<|tool_call>"}, closers: []string{"<tool_call|>"}, crumbs: "}", read: readGemma,
		syntax: &syntax{quote: `<|"|>`, bare: true}, dropped: []string{"<|channel>"}, bare: bareGemma, lines: []string{"\ncall:"},
	}
	functionGemma = &markup{
		openers: []string{"<start_function_call>call:"}, closers: []string{"<end_function_call>"}, crumbs: "}", read: readGemma,
		syntax: &syntax{quote: "<escape>", bare: true},
	}
	lfm = &markup{
		openers: []string{"<|tool_call_start|>"}, closers: []string{"<|tool_call_end|>"}, crumbs: "])", read: readPython,
		bare: barePython, lines: []string{"\n["}, body: pythonBody, listing: "List of tools: ", echoes: true,
	}
)

// The descriptors of families with tagged arguments.
var (
	qwenCoder = &markup{
		sections: []string{"<tool_call>"}, openers: []string{"<function="}, closers: []string{"</tool_call>"},
		read: readTagged, item: readCall, body: tagBody,
		tags: &tags{
			nameEnd: ">", key: "<parameter=", keyEnd: ">", valueEnd: "</parameter>", end: "</function>", trim: true,
		},
	}
	seed = &markup{
		sections: []string{"<seed:tool_call>"}, openers: []string{"<function="}, closers: []string{"</seed:tool_call>"},
		read: readTagged, body: tagBody,
		tags: &tags{nameEnd: ">", key: "<parameter=", keyEnd: ">", valueEnd: "</parameter>", end: "</function>"},
	}
	glm = &markup{
		openers: []string{"<tool_call>"}, closers: []string{"</tool_call>"}, read: readTagged, body: tagBody,
		tags: &tags{
			key: "<arg_key>", keyEnd: "</arg_key>", valueStart: "<arg_value>", valueEnd: "</arg_value>", end: "</tool_call>",
		},
	}
	hunyuan = &markup{
		sections: []string{"<tool_calls>"}, openers: []string{"<tool_call>"}, closers: []string{"</tool_calls>"}, read: readTagged, body: tagBody,
		tags: &tags{
			nameEnd: "<tool_sep>", key: "<arg_key>", keyEnd: "</arg_key>", valueStart: "<arg_value>", valueEnd: "</arg_value>",
			end: "</tool_call>",
		},
	}
	solar2 = &markup{
		openers: []string{"<|tool_call:start|>"}, read: readTagged, body: tagBody,
		tags: &tags{
			nameEnd: "\n", key: "<|tool_arg:start|>", keyEnd: "<|tool_arg:value|>", valueEnd: "<|tool_arg:end|>", end: "<|tool_call:end|>",
		},
	}
	miniCPM = &markup{
		openers: []string{"<function"}, read: readTagged, body: tagBody, whole: true,
		tags: &tags{
			nameEnd: ">", key: "<param", keyEnd: ">", valueEnd: "</param>", end: "</function>", attributes: true, cdata: true,
		},
	}
	dsml = &markup{
		sections: []string{"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"}, openers: []string{"<｜DSML｜invoke"},
		closers: []string{"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"}, read: readTagged, body: tagBody,
		tags: &tags{
			nameEnd: ">", key: "<｜DSML｜parameter", keyEnd: ">", valueEnd: "</｜DSML｜parameter>", end: "</｜DSML｜invoke>", attributes: true,
		},
	}
	miniMax = &markup{
		sections: []string{"<minimax:tool_call>"}, openers: []string{"<invoke"}, closers: []string{"</minimax:tool_call>"},
		read: readTagged, body: tagBody,
		tags: &tags{
			nameEnd: ">", key: "<parameter", keyEnd: ">", valueEnd: "</parameter>", end: "</invoke>", attributes: true,
		},
	}
	miniMax3 = &markup{
		sections: []string{"]<]minimax[>[<tool_call>"}, openers: []string{"]<]minimax[>[<invoke"},
		closers: []string{"]<]minimax[>[</tool_call>"}, read: readTagged, body: tagBody,
		tags: &tags{
			nameEnd: ">", key: "]<]minimax[>[<", keyEnd: ">", valueEnd: "]<]minimax[>[</", end: "]<]minimax[>[</invoke>", attributes: true,
		},
	}
	cohereTags = &markup{
		sections: []string{"<cofl:tool_calls>"}, openers: []string{"<cofl:tool_call "}, closers: []string{"</cofl:tool_calls>"},
		read: readTagged, body: tagBody, dropped: commandR7B.dropped, texts: commandR7B.texts,
		tags: &tags{
			nameEnd: ">", key: "<cofl:tool_param", keyEnd: ">", valueEnd: "</cofl:tool_param>", end: "</cofl:tool_call>", attributes: true,
		},
	}
	kimi3 = &markup{
		sections: []string{"<|open|>tools<|sep|>"}, openers: []string{"<|open|>call "},
		closers: []string{"<|close|>tools<|sep|>", "<|close|>call<|sep|>", "<|close|>json<|sep|>"},
		dropped: []string{
			"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|open|>message<|sep|>", "<|close|>message<|sep|>",
		},
		texts: []string{"<|open|>response<|sep|>"},
		read:  readTagged, body: tagBody,
		tags: &tags{
			nameEnd: "<|sep|>", key: "<|open|>argument", keyEnd: "<|sep|>", valueEnd: "<|close|>argument<|sep|>",
			end: "<|close|>call<|sep|>", whole: `<|open|>json type="object"<|sep|>`, attributes: true, escaped: true,
		},
	}
)

// candidates are the families in the order in which a template is tried: those with the rarer marks first.
var candidates = []candidate{
	{name: "harmony", calls: harmony, layout: harmonyLayout, has: []string{"<|channel|>", "<|message|>"}},
	{name: "muse-glimmer", calls: muse, layout: museLayout, has: []string{"<atem:function_calls>", messageMark}},
	{name: "gemma4", calls: gemma, layout: gemmaLayout, has: []string{"<|tool_call>"}},
	{name: "functiongemma", calls: functionGemma, layout: functionGemmaLayout, has: []string{"<start_function_call>"}},
	{name: "kimi-k3", calls: kimi3, layout: kimi3Layout, has: []string{"<|open|>", "<|sep|>"}},
	{name: "deepseek-v3.2", calls: dsml, layout: dsmlLayout("function_calls"), has: []string{"DSML", "function_calls>"}},
	{name: "deepseek-v4", calls: dsml, layout: dsmlLayout("tool_calls"), has: []string{"DSML", "tool_calls>"}},
	{name: "deepseek-v3", calls: deepSeek, layout: deepSeekLayout, has: []string{"<｜tool▁call▁begin｜>", "```json"}},
	{name: "deepseek-v3.1", calls: deepSeek, layout: deepSeek31Layout, has: []string{"<｜tool▁call▁begin｜>"}},
	{name: "kimi-k2", calls: kimi, layout: kimiLayout, has: []string{"<|tool_call_begin|>"}},
	{name: "minimax-m3", calls: miniMax3, layout: miniMax3Layout, has: []string{"]<]minimax[>["}},
	{name: "minimax-m2", calls: miniMax, layout: miniMaxLayout, has: []string{"<minimax:tool_call>"}},
	{name: "command-tags", calls: cohereTags, layout: cohereTagsLayout, has: []string{"<cofl:tool_call"}},
	{name: "command-r7b", calls: commandR7B, layout: commandR7BLayout, has: []string{"<|START_ACTION|>"}},
	{name: "command-r", calls: commandR, layout: commandRLayout, has: []string{"Action:", "```json"}},
	{name: "mistral-v11", calls: mistral, layout: mistralIDs, has: []string{"[TOOL_CALLS]", "[CALL_ID]"}},
	{name: "mistral-v13", calls: mistral, layout: ministralLayout, has: []string{"[TOOL_CALLS]", "[ARGS]"}},
	{name: "mistral", calls: mistral, layout: mistralLayout, has: []string{"[TOOL_CALLS]"}},
	{name: "functionary-v3.2", calls: functionary32, layout: functionary32Layout, has: []string{">>>all"}},
	{name: "solar-open2", calls: solar2, layout: solar2Layout, has: []string{"<|tool_arg:start|>"}},
	{name: "solar-open", calls: solar, layout: solarLayout, has: []string{"<|tool_call:begin|>", "<|tool_call:args|>"}},
	{name: "seed-oss", calls: seed, layout: seedLayout, has: []string{"<seed:tool_call>"}},
	{name: "qwen3-coder", calls: qwenCoder, layout: qwenCoderLayout, has: []string{"<function=", "<parameter="}},
	{name: "minicpm5", calls: miniCPM, layout: miniCPMLayout, has: []string{`<function name="`, `<param name="`}},
	{name: "functionary-v3.1", calls: functionary31, layout: functionary31Layout, has: []string{"<function="}},
	{name: "hy3", calls: hunyuan, layout: hunyuanLayout, has: []string{"<tool_sep>", "<arg_key>"}},
	{name: "glm4", calls: glm, layout: glmLayout, has: []string{"<arg_key>"}},
	{name: "apertus", calls: apertus, layout: apertusLayout, has: []string{"<|tools_prefix|>"}},
	{name: "phi4", calls: phi, layout: phiLayout, has: []string{"<|tool_call|>", "<|/tool_call|>"}},
	{name: "granite", calls: granite, layout: graniteLayout, has: []string{"<|tool_call|>"}},
	{name: "functools", calls: functools, layout: functoolsLayout, has: []string{"functools["}},
	{name: "longcat", calls: longcat, layout: longcatLayout, has: []string{"<longcat_tool_call>"}},
	{name: "internlm", calls: internLM, layout: internLMLayout, has: []string{"<|action_start|>", "<|plugin|>"}},
	{name: "nemotron", calls: nemotron, layout: nemotronLayout, has: []string{"<TOOLCALL>"}},
	{name: "gigachat-v3.1", calls: gigachat, layout: gigachatLayout, has: []string{"<|function_call|>"}},
	{name: "gigachat", calls: gigachat, layout: gigachatOldLayout, has: []string{"function call", "<|role_sep|>"}},
	{name: "lfm2", calls: lfm, layout: lfmLayout, has: []string{"List of tools: "}},
	{name: "llama4", calls: llama4, layout: llama4Layout, has: []string{"<|python_start|>"}},
	{name: "llama3", calls: llama, layout: llamaLayout, any: []string{"<|python_tag|>", `{"name": "` + probeTool + nameParametersOf}},
	{name: "llama-pythonic", calls: llama4, layout: pythonLayout, has: []string{"[func_name1("}},
	{name: "granite-20b-fc", calls: graniteCode, layout: graniteCodeLayout, has: []string{"<function_call>"}},
	{name: "apriel", calls: apriel, layout: aprielLayout, has: []string{"<tool_calls>"}},
	{name: hermesName, calls: hermes, layout: hermesLayout, has: []string{"<tool_call>"}},
}

// thoughts are the markers of thoughts, in the order in which a template is searched for them.
var thoughts = []*thought{
	marked(thought{open: "[THINK]", close: "[/THINK]", anywhere: true}),
	marked(thought{open: "<|channel>thought\n", close: "<channel|>", anywhere: true, nameless: "<|channel>"}),
	marked(thought{open: "<|START_THINKING|>", close: "<|END_THINKING|>", anywhere: true}),
	marked(thought{open: "<|inner_prefix|>", close: "<|inner_suffix|>", anywhere: true}),
	marked(thought{open: "<|open|>think<|sep|>", close: "<|close|>think<|sep|>", anywhere: true}),
	marked(thought{open: "<mm:think>", close: "</mm:think>"}),
	marked(thought{open: "<seed:think>", close: "</seed:think>"}),
	marked(thought{open: "Here are my reasoning steps:\n", close: "[BEGIN FINAL RESPONSE]", implicit: true}),
	marked(thought{open: "Here is my thought process:", close: "Here is my response:"}),
	marked(thought{open: "<|think:start|>", close: "<|think:end|>", anywhere: true}),
	marked(thought{open: "<|think|>", close: "<|end|>", anywhere: true}),
	think,
}

func marked(t thought) *thought {
	t.mark = strings.TrimSpace(t.open)
	return &t
}
