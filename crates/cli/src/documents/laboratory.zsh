_sealane() {
    setopt localoptions extendedglob
    # The laboratory completes its own words, where its completions are installed.
    if [[ $words[2] == lab ]] && (( CURRENT > 2 && $+functions[_sealane-lab] )); then
        words=(sealane-lab ${words[3,-1]})
        (( CURRENT-- ))
        _sealane-lab
        return
    fi
    _sealane_product "$@"
}
