def test_is_out_of_memory():
    with pytest.raises(RuntimeError):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    assert is_oom("RuntimeError: CUDA error: out of memory")
    assert not is_oom("CUBLAS_STATUS_NOT_INITIALIZED")
