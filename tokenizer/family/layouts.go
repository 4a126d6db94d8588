package family

const (
	nameArguments  = `", "arguments": `
	nameParameters = `", "parameters": `
	// nameParametersOf is nameParameters with the key of a probe's arguments behind it.
	nameParametersOf = nameParameters + `{"` + probeKey
)

// objects is a list of JSON objects between two texts.
func objects(begin, end string) layout {
	return layout{begin: begin, open: `{"name": "`, mid: nameArguments, close: "}", sep: ", ", end: end}
}

// The layouts of the families.
var (
	hermesLayout = layout{open: "<tool_call>\n{\"name\": \"", mid: nameArguments, close: "}\n</tool_call>", sep: "\n"}
	llamaLayout  = layout{open: "{" + kindMark + `"name": "`, mid: nameParameters, close: "}", single: true}
	pythonLayout = layout{begin: "[", mid: "(", close: ")", sep: ", ", end: "]", style: stylePython}
	llama4Layout = layout{begin: "<|python_start|>", open: "{" + kindMark + `"name": "`, mid: nameParameters, close: "}", end: "<|python_end|>", single: true}
	lfmLayout    = layout{
		begin: "<|tool_call_start|>[", mid: "(", close: ")", sep: ", ", end: "]<|tool_call_end|>", style: stylePython,
	}

	mistralLayout   = objects("[TOOL_CALLS][", "]")
	mistralIDs      = layout{open: "[TOOL_CALLS]", mid: "[CALL_ID]" + idMark + "[ARGS]"}
	ministralLayout = layout{open: "[TOOL_CALLS]", mid: "[ARGS]"}

	graniteLayout     = objects("<|tool_call|>[", "]")
	phiLayout         = objects("<|tool_call|>[", "]<|/tool_call|>")
	functoolsLayout   = objects("functools[", "]")
	longcatLayout     = layout{open: `<longcat_tool_call>{"name": "`, mid: nameArguments, close: "}</longcat_tool_call>", sep: "\n"}
	internLMLayout    = layout{open: "<|action_start|><|plugin|>\n{\"name\": \"", mid: nameParameters, close: "}<|action_end|>", single: true}
	nemotronLayout    = objects("<TOOLCALL>[", "]</TOOLCALL>")
	aprielLayout      = objects("<tool_calls>[", "]</tool_calls>")
	graniteCodeLayout = layout{open: "<function_call> {\"name\": \"", mid: nameArguments, close: "}", sep: "\n"}
	apertusLayout     = layout{
		begin: "<|tools_prefix|>[", open: `{"`, mid: `": `, close: "}", sep: ", ", end: "]<|tools_suffix|>",
	}
	gigachatLayout    = layout{open: `<|function_call|>{"name": "`, mid: nameArguments, close: "}", single: true}
	gigachatOldLayout = layout{
		open: "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"", mid: nameArguments, close: "}", single: true,
	}
	commandR7BLayout = layout{
		begin: "<|START_ACTION|>[\n", open: `    {"tool_call_id": "` + indexMark + `", "tool_name": "`, mid: nameParameters, close: "}",
		sep: ",\n", end: "\n]<|END_ACTION|>",
	}
	commandRLayout = layout{
		begin: "Action: ```json\n[\n", open: "    {\n        \"tool_name\": \"", mid: "\",\n        \"parameters\": ", close: "\n    }",
		sep: ",\n", end: "\n]```",
	}

	kimiLayout = layout{
		begin: "<|tool_calls_section_begin|>", open: "<|tool_call_begin|>functions.", mid: ":" + indexMark + "<|tool_call_argument_begin|>",
		close: "<|tool_call_end|>", end: "<|tool_calls_section_end|>",
	}
	deepSeekLayout = layout{
		begin: "<｜tool▁calls▁begin｜>", open: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", mid: "\n```json\n",
		close: "\n```<｜tool▁call▁end｜>", sep: "\n", end: "<｜tool▁calls▁end｜>",
	}
	deepSeek31Layout = layout{
		begin: "<｜tool▁calls▁begin｜>", open: "<｜tool▁call▁begin｜>", mid: "<｜tool▁sep｜>", close: "<｜tool▁call▁end｜>",
		end: "<｜tool▁calls▁end｜>",
	}
	solarLayout = layout{
		begin: "<|tool_calls|>", open: "<|tool_call:begin|>" + idMark + "<|tool_call:name|>", mid: "<|tool_call:args|>", close: "<|tool_call:end|>",
	}
	functionary31Layout = layout{open: "<function=", mid: ">", close: "</function>"}
	functionary32Layout = layout{open: ">>>", mid: "\n", sep: "\n", contentOpen: ">>>all\n"}
	gemmaLayout         = layout{open: "<|tool_call>call:", close: "<tool_call|>", style: styleGemma}
	functionGemmaLayout = layout{open: "<start_function_call>call:", close: "<end_function_call>", style: styleGemma}
	harmonyLayout       = layout{
		open: "<|channel|>commentary to=functions.", mid: " <|constrain|>json<|message|>", close: "<|call|>", single: true,
	}

	museLayout = layout{
		open: " to=", mid: "<|message|><atem:function_calls>\n<atem:invoke name=\"" + keyMark + "\">\n", close: "</atem:invoke>\n</atem:function_calls>",
		sep: "<|eom|><|start|>assistant", style: styleTags, param: [2]string{`<atem:parameter name="`, `">`}, paramEnd: "</atem:parameter>\n",
		contentOpen: " to=user<|message|>", contentEnd: "<|eom|><|start|>assistant",
	}

	qwenCoderLayout = layout{
		open: "<tool_call>\n<function=", mid: ">\n", close: "</function>\n</tool_call>", sep: "\n", style: styleTags,
		param: [2]string{"<parameter=", ">\n"}, paramEnd: "\n</parameter>\n",
	}
	seedLayout = layout{
		open: "<seed:tool_call>\n<function=", mid: ">\n", close: "</function>\n</seed:tool_call>", sep: "\n", style: styleTags,
		param: [2]string{"<parameter=", ">"}, paramEnd: "</parameter>\n",
	}
	glmLayout = layout{
		open: "<tool_call>", mid: lineMark, close: "</tool_call>", sep: lineMark, style: styleTags,
		param: [2]string{"<arg_key>", "</arg_key>" + lineMark + "<arg_value>"}, paramEnd: "</arg_value>" + lineMark,
	}
	hunyuanLayout = layout{
		begin: "<tool_calls>\n", open: "<tool_call>", mid: "<tool_sep>\n", close: "</tool_call>\n", end: "</tool_calls>", style: styleTags,
		param: [2]string{"<arg_key>", "</arg_key>\n<arg_value>"}, paramEnd: "</arg_value>\n",
	}
	solar2Layout = layout{
		open: "<|tool_call:start|>", mid: "\n", close: "<|tool_call:end|>", sep: "\n", style: styleTags,
		param: [2]string{"<|tool_arg:start|>", "<|tool_arg:value|>"}, paramEnd: "<|tool_arg:end|>\n",
	}
	miniCPMLayout = layout{
		open: `<function name="`, mid: `">`, close: "</function>", sep: "\n", style: styleTags,
		param: [2]string{`<param name="`, `">`}, paramEnd: "</param>",
	}
	miniMaxLayout = layout{
		begin: "<minimax:tool_call>\n", open: `<invoke name="`, mid: "\">\n", close: "</invoke>\n", end: "</minimax:tool_call>",
		style: styleTags, param: [2]string{`<parameter name="`, `">`}, paramEnd: "</parameter>\n",
	}
	miniMax3Layout = layout{
		begin: "]<]minimax[>[<tool_call>\n", open: `]<]minimax[>[<invoke name="`, mid: "\">\n", close: "]<]minimax[>[</invoke>\n",
		end: "]<]minimax[>[</tool_call>", style: styleTags, param: [2]string{"]<]minimax[>[<", ">"}, paramEnd: "]<]minimax[>[</" + keyMark + ">\n",
	}
	cohereTagsLayout = layout{
		begin: "<cofl:tool_calls>", open: `<cofl:tool_call id="` + indexMark + `" name="`, mid: `">`, close: "</cofl:tool_call>",
		end: "</cofl:tool_calls>", style: styleTags, param: [2]string{`<cofl:tool_param name="`, `" string="` + typeMark + `">`},
		paramEnd: "</cofl:tool_param>",
	}
	kimi3Layout = layout{
		begin: "<|open|>tools<|sep|>", open: `<|open|>call tool="`, mid: `" index="` + indexMark + `"<|sep|>`, close: "<|close|>call<|sep|>",
		end: "<|close|>tools<|sep|>", style: styleTags, param: [2]string{`<|open|>argument key="`, `" type="` + typeMark + `"<|sep|>`},
		paramEnd: "<|close|>argument<|sep|>", firstIndex: 1,
	}
)

// dsmlLayout is DeepSeek's: the list's name differs between V3.2 and V4.
func dsmlLayout(list string) layout {
	return layout{
		begin: "<｜DSML｜" + list + ">\n", open: `<｜DSML｜invoke name="`, mid: "\">\n", close: "</｜DSML｜invoke>\n", end: "</｜DSML｜" + list + ">",
		style: styleTags, param: [2]string{`<｜DSML｜parameter name="`, `" string="` + typeMark + `">`}, paramEnd: "</｜DSML｜parameter>\n",
	}
}
