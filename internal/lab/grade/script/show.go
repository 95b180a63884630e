package script

import (
	"fmt"
	"strings"

	"outcry/internal/lab/dialect"
)

// Bounds of messages.
const (
	shownMax  = 300  // bytes of an element
	ordersMax = 1000 // orders whose descriptions are kept
)

// show returns an element as text for a message.
func show(e *dialect.Element) string { return elide(write(e), shownMax) }

// showAll returns elements as text, separated by "and".
func showAll(elements []*dialect.Element) string {
	if len(elements) == 0 {
		return "nothing"
	}
	var all []string
	for _, e := range elements {
		all = append(all, write(e))
	}
	return elide(strings.Join(all, " and "), shownMax)
}

// write returns an element as XML. Attributes are escaped so that the XML is well-formed, but not byte for
// byte as they were sent.
func write(e *dialect.Element) string {
	var out strings.Builder
	out.WriteString("<" + e.Name)
	for _, a := range e.Attrs {
		fmt.Fprintf(&out, ` %s="%s"`, a.Name, quoted.Replace(a.Value))
	}
	if len(e.Children) == 0 && e.Text == "" {
		return out.String() + "/>"
	}
	out.WriteString(">" + quoted.Replace(e.Text))
	for _, child := range e.Children {
		if out.Len() > lineMax {
			out.WriteString("…")
			break
		}
		out.WriteString(write(child))
	}
	return out.String() + "</" + e.Name + ">"
}

var quoted = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;")

// names lists the tags of elements, with a count for equal ones in a row: <opened>, 2 × <error>.
func names(elements []*dialect.Element) string {
	var all []string
	for i := 0; i < len(elements); {
		n := 1
		for i+n < len(elements) && elements[i+n].Name == elements[i].Name {
			n++
		}
		tag := "<" + elements[i].Name + ">"
		if n > 1 {
			tag = fmt.Sprintf("%d × %s", n, tag)
		}
		all = append(all, tag)
		i += n
	}
	return elide(strings.Join(all, ", "), shownMax)
}

func afterColon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// count returns a number with its noun: 1 answer, 2 answers.
func count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing + "s"
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// asked returns, for each answer to doc, a few words about the request. It returns nil if doc cannot be parsed.
// orders has descriptions of orders by id.
func asked(doc string, orders map[string]string) []string {
	root, err := dialect.ParseDoc(doc)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range root.Children {
		if e.Name != "symbol" || len(e.Children) == 0 {
			id, _ := e.Attr("id")
			of := ""
			if e.Name == "query" || e.Name == "cancel" {
				of = orders[id]
			}
			all = append(all, show(&dialect.Element{Name: e.Name, Attrs: e.Attrs})+of)
		}
		if e.Name == "symbol" {
			sym, _ := e.Attr("sym")
			for _, child := range e.Children {
				id, _ := child.Attr("id")
				all = append(all, elide(fmt.Sprintf("%s shares of %s for account %s", child.Text, sym, id), shownMax))
			}
		}
	}
	return all
}

// remember stores a description of each order that a reply reports as opened.
func (p *play) remember(doc string, answers []*dialect.Element) {
	root, err := dialect.ParseDoc(doc)
	if err != nil || root.Name != "transactions" || len(root.Children) != len(answers) {
		return
	}
	for i, e := range root.Children {
		id, ok := answers[i].Attr("id")
		amount, _ := e.Attr("amount")
		limit, _ := e.Attr("limit")
		if !ok || e.Name != "order" || answers[i].Name != "opened" || len(p.orders) >= ordersMax {
			continue
		}
		words := "buy " + amount
		if sold, ok := strings.CutPrefix(amount, "-"); ok {
			words = "sell " + sold
		}
		p.orders[id] = " " + elide(fmt.Sprintf("(the order to %s at %s)", words, limit), shownMax)
	}
}
