package dialect

import "slices"

// echoMax is the longest value in bytes that a reply must repeat whole; it may cut a longer one.
const echoMax = 128

// repeated are the attributes that a reply must repeat byte for byte.
var repeated = []string{"sym", "amount", "limit", "id", "ref"}

// Judge compares reply, the root of a reply, with sent, the root of the document that it answers. It
// returns remarks of Echo and RefusedID, each at most once, without a conversation. It returns nil if
// reply does not have one child for each element sent.
func Judge(sent, reply *Element) []Remark {
	commands := commandsOf(sent)
	if len(commands) != len(reply.Children) {
		return nil
	}
	f := findings{}
	for i, c := range commands {
		f.echo(c, reply.Children[i])
		if _, ok := reply.Children[i].Attr("id"); ok && reply.Children[i].Name == "error" && c.Name == "order" {
			f.add(RefusedID, "the <error> of an order has an id, which only an order that was accepted has")
		}
	}
	return f.remarks
}

// echo checks that answer repeats the attributes of command.
func (f *findings) echo(command, answer *Element) {
	for _, a := range command.Attrs {
		if !slices.Contains(repeated, a.Name) || len(a.Value) > echoMax {
			continue
		}
		switch got, ok := answer.Attr(a.Name); {
		case !ok:
			f.add(Echo, `<%s> does not repeat %s="%s" of its <%s>`, excerpt(answer.Name), a.Name, a.Value, command.Name)
		case got != a.Value:
			f.add(Echo, `<%s> has %s="%s", its <%s> had %s="%s"; it must be repeated byte for byte`,
				excerpt(answer.Name), a.Name, excerpt(got), command.Name, a.Name, a.Value)
		}
	}
}

// commandsOf returns the elements of a request that are answered, in their order. An element in a
// <symbol> gets the symbol's name as an attribute, which its answer must repeat too.
func commandsOf(root *Element) []*Element {
	var all []*Element
	for _, e := range root.Children {
		if root.Name != "create" || e.Name != "symbol" || len(e.Children) == 0 {
			all = append(all, e)
			continue
		}
		for _, account := range e.Children {
			attrs := slices.Clone(account.Attrs)
			if sym, ok := e.Attr("sym"); ok {
				attrs = append(attrs, Attr{"sym", sym})
			}
			all = append(all, &Element{Name: account.Name, Attrs: attrs})
		}
	}
	return all
}

// Judge compares the reply with the document that was sent, and remarks an attribute that is not
// repeated byte for byte and an id in the error of an order. The caller has checked that the children
// of the reply have the expected names. Judge does nothing after SendRaw, or if the reply does not
// have one child for each element sent.
func (r *Reply) Judge() {
	if r.remark == nil || r.Sent == "" {
		return
	}
	if sent, err := ParseDoc(r.Sent); err == nil {
		r.report(Judge(sent, r.Root), r.Sent)
	}
}

// report calls remark for each of remarks, with the conversation added.
func (r *Reply) report(remarks []Remark, sent string) {
	if r.remark == nil {
		return
	}
	for _, m := range remarks {
		m.Sent, m.Got = excerpt(sent), r.Raw
		r.remark(m)
	}
}
