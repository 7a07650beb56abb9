# The laboratory completes its own words, where its completions are installed.
_sealane_laboratory() {
    declare -F _sealane__lab >/dev/null || _comp_load sealane-lab 2>/dev/null || _completion_loader sealane-lab 2>/dev/null
    declare -F _sealane__lab >/dev/null || return 1
    COMP_WORDS=(sealane-lab "${COMP_WORDS[@]:2}")
    COMP_CWORD=$((COMP_CWORD - 1))
    _sealane__lab sealane-lab "$2" "$3"
}

_sealane() {
    [[ ${COMP_WORDS[1]} == lab && $COMP_CWORD -gt 1 ]] && _sealane_laboratory "$@" && return
    _sealane_product "$@"
}
