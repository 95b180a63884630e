# Completion of outcry-lab for bash. Written by outcry-lab completion bash.
_outcry-lab() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local i skip= flags= next= files= first= second=
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in '=' | ':') skip=1; continue ;; esac # bash breaks words there
    if [[ -n $skip ]]; then skip=; continue; fi
    case ${COMP_WORDS[i]} in
    --accounts | --addr | --cases | --cash | --compose | --config | --connections | --csv | --data | --database-url | --database-url-file | --depth | --duration | --experiment | --first | --gradescope | --gradescope-zip | --html | --http | --junit | --listen | --makers | --many | --noise | --orders | --outcryd | --profile | --rate | --reply | --report | --requests | --require | --rounds | --seed | --service | --shares | --start | --symbols | --takers | --time | --timeout | --tls-ca | --tls-cert | --tls-key | --token-file | --user) skip=1 ;;
    -*) ;;
    *) if [[ -z $first ]]; then first=${COMP_WORDS[i]}; elif [[ -z $second ]]; then second=${COMP_WORDS[i]}; fi ;;
    esac
  done
  case "$first $second" in
  "grade "*) flags='--addr --cases --compose --csv --gradescope --gradescope-zip --html --json --junit --load --many --profile --require --seed --service --start --time --user --help' next='' files= ;;
  "class new") flags='--cash --csv --data --first --shares --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "class reset") flags='--config --data --database-url --database-url-file --yes --help' next='' files= ;;
  "demo "*) flags='--accounts --duration --leave-orders --makers --noise --rate --report --seed --symbols --takers --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "bench run") flags='--accounts --beside --connections --depth --duration --experiment --json --no-refs --orders --outcryd --profile --rate --requests --rounds --symbols --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "bench echo") flags='--listen --reply --help' next='' files= ;;
  "completion "*) flags='--help' next='bash zsh fish' files= ;;
  "help "*) flags='--help' next='grade class demo bench completion help version' files= ;;
  "version "*) flags='--help' next='' files= ;;
  "class "*) flags='' next='new reset' files= ;;
  "bench "*) flags='' next='run echo' files= ;;
  " "*) flags='--addr --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='grade class demo bench completion help version' files= ;;
  esac
  COMPREPLY=()
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  case $prev in --cases | --compose | --config | --csv | --data | --database-url-file | --gradescope | --gradescope-zip | --html | --junit | --many | --profile | --tls-ca | --tls-cert | --tls-key | --token-file) skip=1 files=1 ;; *) [[ -n $skip ]] && files= ;; esac
  if [[ -z $skip && $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -- "$cur"))
  elif [[ -z $skip ]]; then
    COMPREPLY=($(compgen -W "$next" -- "$cur"))
  fi
}
complete -F _outcry-lab outcry-lab
